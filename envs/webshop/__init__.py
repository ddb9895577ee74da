"""WebShop: the agent searches, opens pages, chooses options and buys; the score measures how well the goal is met."""

from creditflow.envs.webshop.catalogue.importing import ImportReport, import_webshop
from creditflow.envs.webshop.catalogue.stock import ShopFiles, Stock, load_stock
from creditflow.envs.webshop.catalogue.store import verify_store
from creditflow.envs.webshop.env import WebShopEnv
from creditflow.envs.webshop.goals.stored import open_store
from creditflow.envs.webshop.presets import PRESETS

__all__ = [
    "PRESETS",
    "ImportReport",
    "ShopFiles",
    "Stock",
    "WebShopEnv",
    "import_webshop",
    "load_stock",
    "open_store",
    "verify_store",
]
