"""WebShop: the agent searches, opens pages, chooses options and buys; the score measures how well the goal is met."""

from creditflow.envs.webshop.catalogue.stock import ShopFiles, Stock, load_stock
from creditflow.envs.webshop.env import WebShopEnv
from creditflow.envs.webshop.presets import PRESETS

__all__ = ["PRESETS", "ShopFiles", "Stock", "WebShopEnv", "load_stock"]
