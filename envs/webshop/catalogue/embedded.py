"""The embedded shop: a thousand products and their goals, generated once per process from a seeded grammar.

The products of a type share attributes and option values, so that the first hit of a search is often the wrong one. The
same seed gives the same shop on every machine, as only raw integers are sampled. ``calibration`` measures its difficulty;
a test compares the figures with those of WebShop's thousand products.

The vocabulary has five departments with their product types, attributes and options. Every type is written "plural |
singular"; the plural is the search phrase of its products. A few templates word the goals and state all requirements. All of
it is invented for this package; it contains no product text from elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeVar

import numpy as np

from creditflow.envs.tasks import sample_index
from creditflow.envs.webshop.catalogue.catalogue import Catalogue, MemoryProducts
from creditflow.envs.webshop.catalogue.products import Product
from creditflow.envs.webshop.catalogue.stock import Stock
from creditflow.envs.webshop.goals.goals import Goal

__all__ = [
    "DEPARTMENTS",
    "FILLERS",
    "GENERATION",
    "NAME_ENDS",
    "NAME_STARTS",
    "SEED",
    "Department",
    "RandomSource",
    "embedded_stock",
    "make_products",
    "phrase",
]


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.replace("\n", ";").split(";") if line.strip())


@dataclass(frozen=True, slots=True)
class Department:
    """One department.

    Attributes:
        name: its name on pages and in goals.
        title: first part of the category path.
        types: "plural | singular", those with most products first.
        shelves: second part of the category path, assigned to types in turn.
        attributes: attributes of its products.
        options: option group -> possible values, near misses included.
        prices: lowest and highest usual price in dollars.
        uses: phrases for titles and descriptions.
    """

    name: str
    title: str
    types: tuple[str, ...]
    shelves: tuple[str, ...]
    attributes: tuple[str, ...]
    options: dict[str, tuple[str, ...]]
    prices: tuple[int, int]
    uses: tuple[str, ...]


_COLOURS: Final = _lines(
    """navy; navy blue; sky blue; blue; royal blue; teal; teal green; green; olive; olive green; forest green; mint
    red; dark red; wine red; burgundy; rose; rose pink; pink; blush pink; purple; deep purple; lavender; black
    matte black; charcoal; grey; light grey; silver; white; off white; ivory; cream; beige; sand; brown; chocolate brown
    walnut; gold; rose gold; copper; yellow; mustard yellow; orange; coral; black and white; red plaid; blue stripe"""
)
_WEAR_SIZES: Final = _lines(
    "xx-small; x-small; small; medium; large; x-large; xx-large; 3x-large; small tall; medium tall; large tall; petite small"
)
_COUNTS: Final = _lines("1 pack; 2 pack; 3 pack; 4 pack; 6 pack; pack of 8; pack of 12; 24 count")

DEPARTMENTS: Final = (
    Department(
        "clothing",
        "Clothing & Accessories",
        _lines(
            """rain jackets | rain jacket; hooded sweatshirts | hooded sweatshirt; casual shirts | casual shirt
            knit sweaters | knit sweater; walking shoes | walking shoe; summer dresses | summer dress
            jogging trousers | jogging trouser; denim skirts | denim skirt; winter coats | winter coat
            polo shirts | polo shirt; pyjama sets | pyjama set; ankle boots | ankle boot; sun hats | sun hat
            wool scarves | wool scarf; leather belts | leather belt; swim shorts | swim short; work trousers | work trouser
            canvas sneakers | canvas sneaker; house slippers | house slipper; fleece vests | fleece vest
            tank tops | tank top; knee socks | knee sock; bath robes | bath robe; formal waistcoats | formal waistcoat"""
        ),
        ("Tops & Outerwear", "Bottoms", "Shoes & Extras"),
        _lines(
            """machine washable; long sleeves; short sleeves; relaxed fit; slim cut; elastic waistband; rubber sole
            quick drying; stretch fabric; organic cotton; moisture wicking; button closure; zip pockets; soft lining
            wrinkle resistant; wind proof; water repellent; non slip; high waist; drawstring hem; hand washable
            reflective trim; tagless collar; double stitched; breathable mesh; memory foam; everyday wear; arch support"""
        ),
        {"color": _COLOURS, "size": _WEAR_SIZES, "fit type": ("men", "women", "youth", "unisex")},
        (9, 120),
        _lines("for the office; for weekends; for travel; for the gym; for cool evenings; for summer; for school"),
    ),
    Department(
        "home",
        "Home & Living",
        _lines(
            """throw pillows | throw pillow; desk lamps | desk lamp; area rugs | area rug; storage baskets | storage basket
            window curtains | window curtain; dining chairs | dining chair; wall shelves | wall shelf
            bed blankets | bed blanket; coffee tables | coffee table; wall clocks | wall clock; bath towels | bath towel
            picture frames | picture frame; bar stools | bar stool; shower curtains | shower curtain
            flower vases | flower vase; floor mirrors | floor mirror; night stands | night stand; table runners | table runner
            candle holders | candle holder; shoe racks | shoe rack; coat hooks | coat hook; seat cushions | seat cushion
            door mats | door mat; serving trays | serving tray"""
        ),
        ("Furniture", "Textiles", "Decoration"),
        _lines(
            """easy assembly; solid wood; steel frame; space saving; stain resistant; super soft; machine washable
            scratch resistant; non slip; high density foam; hand woven; fade resistant; dimmable light; wall mounted
            folding design; living room; dining room; guest bedroom; water proof; noise free; heavy duty; eco friendly
            double sided; removable cover; tempered glass; natural fibres; rust free; easy clean"""
        ),
        {
            "color": _COLOURS,
            "size": _lines(
                '12" x 12"; 16" x 16"; 18" x 18"; 20" x 20"; 20" x 36"; 24" x 36"; 36" x 60"; 48" x 72"; 60" x 84"; round 4 ft;'
                "round 6 ft; small; medium; large"
            ),
            "style": _lines("set of 1; set of 2; set of 4; set of 6; with lid; with base; plain; ribbed"),
        },
        (8, 260),
        _lines("for the living room; for small flats; for the bedroom; for the hallway; for guests; for the study"),
    ),
    Department(
        "tech",
        "Electronics",
        _lines(
            """phone cases | phone case; usb cables | usb cable; wireless earbuds | wireless earbud
            screen protectors | screen protector; power banks | power bank; tablet stands | tablet stand
            bluetooth speakers | bluetooth speaker; laptop sleeves | laptop sleeve; wall chargers | wall charger
            computer mice | computer mouse; watch bands | watch band; webcam covers | webcam cover; hdmi cables | hdmi cable
            camera bags | camera bag; desk microphones | desk microphone; mini projectors | mini projector
            smart plugs | smart plug; keyboard covers | keyboard cover; tv mounts | tv mount; card readers | card reader
            alarm clocks | alarm clock; car holders | car holder; memory cards | memory card; headphone stands | headphone stand"""
        ),
        ("Mobile", "Audio & Video", "Computing"),
        _lines(
            """fast charging; shock proof; noise cancelling; long battery life; plug and play; gold plated; high speed
            ultra slim; water resistant; case friendly; wide compatibility; touch control; braided cord; anti scratch
            easy install; high definition; wireless charging; carrying case; aluminum body; quiet click; low latency
            travel size; dust proof; foldable arm; clear sound; night mode; heavy duty; non slip"""
        ),
        {
            "color": _COLOURS,
            "size": _lines(
                "3 ft; 6 ft; 6.6 ft; 10 ft; 15 ft; 5.4 inch; 6.1 inch; 6.7 inch; 11 inch; 13 inch; 14 inch; 15.6 inch; small; large"
            ),
            "style": _lines("usb c; usb a; usb c to usb c; 2 port; 3 port; with cable; without cable; plus"),
        },
        (6, 190),
        _lines("for travel; for home office; for the car; for students; for video calls; for the gym; for gaming"),
    ),
    Department(
        "beauty",
        "Beauty & Care",
        _lines(
            """face creams | face cream; hair conditioners | hair conditioner; lip balms | lip balm; body lotions | body lotion
            makeup brushes | makeup brush; nail polishes | nail polish; hand soaps | hand soap; eye masks | eye mask
            hair clips | hair clip; tooth brushes | tooth brush; bath salts | bath salt; shaving creams | shaving cream
            cosmetic bags | cosmetic bag; face serums | face serum; perfume sprays | perfume spray; hair oils | hair oil
            cotton pads | cotton pad; foot scrubs | foot scrub; beard combs | beard comb; hand mirrors | hand mirror
            mouth rinses | mouth rinse; sun lotions | sun lotion; eyebrow pencils | eyebrow pencil; shower caps | shower cap"""
        ),
        ("Skin", "Hair", "Tools"),
        _lines(
            """sensitive skin; dry hair; cruelty free; paraben free; sulfate free; fragrance free; tea tree; coconut oil
            long lasting; deep moisture; anti aging; easy carry; high quality; natural ingredients; clinically tested
            vitamin c; aloe vera; dry skin; damaged hair; oil control; travel size; soft bristles; leak proof; quick absorbing
            shea butter; fine lines; gentle care; vegan formula"""
        ),
        {
            "scent": _lines(
                """lavender; lavender mint; rose; rose water; vanilla; vanilla bean; coconut; citrus; lemon; green tea
                unscented; ocean; cedar; cherry blossom; almond; eucalyptus"""
            ),
            "size": _lines(
                "1 ounce; 2 ounce; 3.4 ounce; 4 ounce; 8 ounce; 12 ounce; 16 ounce; 30 ml; 50 ml; 100 ml; 250 ml"
            ),
            "color": _COLOURS,
        },
        (5, 70),
        _lines("for men and women; for daily use; for travel; for mornings; for the night; for teenagers; for winter"),
    ),
    Department(
        "pantry",
        "Food & Drink",
        _lines(
            """granola bars | granola bar; herbal teas | herbal tea; roasted nuts | roasted nut; coffee beans | coffee bean
            dried fruits | dried fruit; pasta sauces | pasta sauce; potato crisps | potato crisp; hot cereals | hot cereal
            fruit jams | fruit jam; olive oils | olive oil; rice crackers | rice cracker; chocolate biscuits | chocolate biscuit
            protein shakes | protein shake; spice rubs | spice rub; nut butters | nut butter; soup mixes | soup mix
            maple syrups | maple syrup; gummy candies | gummy candy; salad dressings | salad dressing
            coconut waters | coconut water; baking mixes | baking mix; popcorn kernels | popcorn kernel
            fish snacks | fish snack; hot sauces | hot sauce"""
        ),
        ("Snacks", "Drinks", "Cooking"),
        _lines(
            """gluten free; dairy free; sugar free; low sodium; non gmo; certified organic; high protein; keto friendly
            plant based; nut free; low carb; artificial colors free; fat free; soy free; individually wrapped; high fiber
            real fruit; ready to eat; whole grain; caffeine free; kosher certified; rich flavor; resealable bag
            shelf stable; great gift; no preservatives; slow roasted; small batch"""
        ),
        {
            "flavor": _lines(
                """chocolate; dark chocolate; chocolate mint; vanilla; vanilla almond; peanut butter; salted caramel; caramel
                strawberry; mixed berry; berry; lemon; lemon ginger; ginger; cinnamon; apple cinnamon; sea salt; smoky paprika
                garlic herb; honey; honey mustard; original; spicy chili; mango; coconut"""
            ),
            "size": _lines("4 ounce; 6 ounce; 8 ounce; 12 ounce; 1 pound; 2 pound; 5 pound; 16.9 ounce"),
            "number of items": _COUNTS,
        },
        (4, 60),
        _lines("for breakfast; for the road; for lunch boxes; for parties; for sharing; for hikers; for the office"),
    ),
)

NAME_STARTS: Final = _lines(
    "Al; Ber; Cor; Dal; El; Fen; Gar; Hol; Il; Jor; Kel; Lum; Mar; Nor; Or; Pel; Quin; Ros; Sel; Tor; Ul; Ver; Wil; Yar; Zan"
)
NAME_ENDS: Final = _lines(
    "bo; dane; fex; gren; ivo; kora; lith; mont; nara; ova; pine; quo; rell; sta; tesk; umi; vale; wick; yo; zen"
)
FILLERS: Final = _lines(
    """Made with care by people who use it every day
    It comes in a simple box without plastic
    Write to us if anything is not as you hoped
    A thoughtful present for friends and family
    Our second edition listens to what you told us
    Colours may look a little different on your screen
    Measure before you order to find what suits you
    Small details make the difference
    We check every piece by hand before it leaves the workshop
    Small variations are a sign of honest materials
    Store it in a cool and dry place
    Thousands of households already rely on it
    Designed in a studio by the sea
    Please keep the leaflet for later"""
)


_OPENINGS: Final = (
    "I am looking for {things}",
    "Please get me {things}",
    "I would like to buy {things}",
    "Could you find {things}",
    "We need {things}",
    "Show me {things}",
)
_WISHES: Final = (" that offer {a}", " known for {a}", ", important to me: {a}", " described as {a}")
_PRICES: Final = (
    "My limit is {cap:.2f} dollars",
    "It has to cost {cap:.2f} dollars or less",
    "I can spend up to {cap:.2f} dollars",
)
_REWORDED: Final = {
    "ounce": "oz",
    "pound": "lb",
    "inch": "in",
    "ft": "foot",
    "x-small": "extra small",
    "xx-small": "double extra small",
    "x-large": "extra large",
    "xx-large": "double extra large",
    "3x-large": "triple extra large",
    "petite small": "small petite",
    "small tall": "tall small",
    "medium tall": "tall medium",
    "large tall": "tall large",
    "2 pack": "two-pack",
    "3 pack": "three-pack",
    "4 pack": "four-pack",
    "6 pack": "six-pack",
    "pack of 8": "box of eight",
    "pack of 12": "dozen",
    "grey": "gray",
    "light grey": "light gray",
    "men": "a man",
    "women": "a lady",
}


def _reword(value: str) -> str:
    """Another wording of an option value: "8 oz" for "8 ounce"."""
    if value in _REWORDED:
        return _REWORDED[value]
    number, _, unit = value.rpartition(" ")
    return f"{number} {_REWORDED[unit]}" if number and unit in ("ounce", "pound", "inch", "ft") else value


def _list(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def phrase(
    product: Product,
    attributes: Sequence[str],
    options: Sequence[tuple[str, str]],
    cap: float,
    rng: RandomSource,
    reworded: bool,
) -> str:
    """The instruction of a goal: product, attributes, options and price cap.

    Args:
        product: the goal's product.
        attributes: wanted attributes, at least one.
        options: wanted (group, value) pairs.
        cap: highest price in dollars.
        rng: picks the wording.
        reworded: word sizes and counts differently from the shop.
    """
    if reworded:
        options = [(name, _reword(value)) for name, value in options]
    split = rng.below(len(attributes) + 1)
    before, after = attributes[:split], attributes[split:]
    things = f"{_list(before)} {product.query}" if before else product.query
    text = rng.choice(_OPENINGS).format(things=things)
    if after:
        text += rng.choice(_WISHES).format(a=_list(after))
    if options:
        if rng.bernoulli(50):
            text += ". Choose " + _list([f"{name}: {value}" for name, value in options])
        else:
            text += ". I want it in " + _list(
                [f"{value} {name}" if name != "size" else f"size {value}" for name, value in options]
            )
    return f"{text}. {rng.choice(_PRICES).format(cap=cap)}."


T = TypeVar("T")
OptionPool = dict[str, list[str]]

GENERATION: Final = 1
SEED: Final = 20_261_121
# products of a department's types, the largest first: 200 in all
TYPE_SIZES: Final = (52, 34, 22, 14, 10, 8, 7, 6, 5, 5, 4, 4, 4, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 1)
TYPE_ATTRIBUTES: Final = 14
STRAYS: Final = 4  # attributes that a product's texts may mention although it does not have them
NAMED: Final = 70  # per cent of goals whose options include their group's name, as synthetic goals do
REWORDED: Final = 60  # per cent of the others that word sizes differently from the shop
TYPE_VALUES: Final = 20  # option values that the products of a type share, per group


class RandomSource:
    """Random choices made from raw 64-bit integers, which are the same in every NumPy version."""

    def __init__(self, *seed: int) -> None:
        self._rng = np.random.Generator(np.random.PCG64(list(seed)))

    def below(self, n: int) -> int:
        """A uniform integer in 0..n-1."""
        return sample_index(self._rng, n)

    def choice(self, items: Sequence[T]) -> T:
        """One item."""
        return items[self.below(len(items))]

    def sample(self, items: Sequence[T], k: int) -> list[T]:
        """``k`` different items in random order."""
        pool = list(items)
        return [pool.pop(self.below(len(pool))) for _ in range(min(k, len(pool)))]

    def bernoulli(self, percent: int) -> bool:
        """True with a probability of ``percent`` per cent."""
        return self.below(100) < percent


def _asin(number: int) -> str:
    """A ten-character id that carries no information about the product."""
    digits, value = "", (number * 7_919_417 + 104_729) % 36**7
    for _ in range(7):
        value, digit = divmod(value, 36)
        digits += "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[digit]
    return f"C0{digits}X"


def _capital(text: str) -> str:
    return " ".join(word[:1].upper() + word[1:] for word in text.split())


def _product(
    number: int, department: Department, type_index: int, pool: Sequence[str], values: OptionPool, rng: RandomSource
) -> Product:
    plural, singular = (form.strip() for form in department.types[type_index].split("|"))
    attributes = rng.sample(pool, (2, 2, 3, 3, 3, 4, 5, 6)[rng.below(8)])
    brand = rng.choice(NAME_STARTS) + rng.choice(NAME_ENDS)
    strays = rng.sample([a for a in pool if a not in attributes], STRAYS)
    mentioned = rng.sample([*attributes, *strays], 7)  # attributes that title and texts mention
    named = mentioned[: 1 + rng.below(2)]
    lead = _capital(named[0])
    title = f"{brand} {lead} {_capital(singular)} {_capital(rng.choice(department.uses))}"
    if len(named) > 1:
        title += f", {_capital(named[1])}"
    if rng.bernoulli(60):
        title += f", {_capital(rng.choice(FILLERS[:8]))}"
    title += f", Model {rng.choice('ABCDEFGHKLMNPRST')}{10 + rng.below(90)}"
    sentences = [f"This {singular} {rng.choice(department.uses)} comes from {brand}"]
    sentences += [f"Buyers praise it: {attribute}" for attribute in mentioned[2:4]]
    sentences += rng.sample(FILLERS, 3 + rng.below(8))
    description = "" if rng.bernoulli(30) else ". ".join(sentences) + "."
    bullets = [f"{_capital(a)}: {rng.choice(FILLERS).lower()}" for a in mentioned[4:7]]
    bullets += rng.sample(FILLERS, 2)
    low, high = department.prices
    amount = low + rng.below(high - low) * (1 + rng.below(4)) // 4
    prices: tuple[float, ...] = (round(amount + (0.99, 0.49, 0.0, 0.95)[rng.below(4)], 2),)
    if rng.bernoulli(9):
        prices = (prices[0], round(prices[0] + 1 + rng.below(12), 2))
    tag = " to ".join(f"${price}" for price in prices)
    path = f"{department.title} › {department.shelves[type_index % len(department.shelves)]} › {_capital(plural)}"
    return Product(
        asin=_asin(number),
        title=title,
        description=description,
        bullets=tuple(bullets),
        prices=prices,
        price_tag=tag,
        options=_options(values, type_index, rng),
        attributes=tuple(attributes),
        category=department.name,
        query=plural,
        product_category=path,
    )


def _options(pools: OptionPool, type_index: int, rng: RandomSource) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The option groups of a product: none for about half of them, else one or two, rarely three."""
    groups = list(pools.items())
    count = (
        (0, 0, 0, 0, 0, 1, 1, 2, 2, 2)[rng.below(10)] if type_index else (0, 1, 1, 2, 2, 2, 2, 2, 2, 3)[rng.below(10)]
    )
    chosen = groups[:2] if count == 2 else rng.sample(groups, count)
    return tuple((name, tuple(rng.sample(values, 3 + rng.below(6)))) for name, values in chosen)


def make_products(seed: int = SEED) -> list[Product]:
    """The thousand products, in catalogue order."""
    products: list[Product] = []
    for d, department in enumerate(DEPARTMENTS):
        for type_index, size in enumerate(TYPE_SIZES):
            rng = RandomSource(seed, GENERATION, d, type_index)
            pool = rng.sample(department.attributes, TYPE_ATTRIBUTES)
            values = {name: rng.sample(options, TYPE_VALUES) for name, options in department.options.items()}
            products += [_product(len(products) + k, department, type_index, pool, values, rng) for k in range(size)]
    return RandomSource(seed, GENERATION, 99).sample(products, len(products))


def make_goals(products: Sequence[Product], prices: Sequence[float], seed: int = SEED) -> list[Goal]:
    """Up to three goals for a product with several option groups, one with one group, one for a few products without any."""
    goals: list[Goal] = []
    for row, (product, price) in enumerate(zip(products, prices, strict=True)):
        rng = RandomSource(seed, GENERATION, 100, row)
        if not product.options and not rng.bernoulli(3):
            continue
        for _ in range(3 if len(product.options) > 1 else 1):
            options = tuple((name, rng.choice(values)) for name, values in sorted(product.options))
            attributes = tuple(rng.sample(product.attributes, 1 + rng.below(len(product.attributes))))
            cap = (int(price) // 10 + 1 + rng.below(3)) * 10.0
            named = rng.bernoulli(NAMED)
            text = phrase(product, attributes, options, cap, rng, not named and rng.bernoulli(REWORDED))
            option_values = options if named else tuple(value for _, value in options)
            goals.append(
                Goal(
                    product.asin,
                    product.category,
                    product.query,
                    product.title,
                    product.product_category,
                    text,
                    attributes,
                    cap,
                    option_values,
                    named_options=named,
                )
            )
    return list(dict.fromkeys(goals))


@cache
def embedded_stock() -> Stock:
    """The embedded shop, generated once per process (about half a second)."""
    products = make_products()
    rng = RandomSource(SEED, GENERATION, 98)
    prices = [p.prices[0] if len(p.prices) == 1 else round(p.prices[0] + rng.below(100) / 100, 2) for p in products]
    catalogue = Catalogue(MemoryProducts(products, prices))
    return Stock(catalogue, make_goals(products, prices))
