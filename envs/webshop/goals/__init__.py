"""Goals: how they are made from products, worded, stored and named."""
