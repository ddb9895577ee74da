"""WebShop: a shopper searches, opens pages, chooses options and buys; the score says how well the goal was met."""
