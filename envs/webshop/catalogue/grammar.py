"""The vocabulary of the embedded catalogue: five departments, their product types, attributes and options.

Every type is written "plural | singular"; the plural is the search phrase of its products. All of it is
invented for this package; it contains no product text from elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["DEPARTMENTS", "FILLERS", "NAME_ENDS", "NAME_STARTS", "Department"]


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
