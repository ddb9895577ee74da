"""Goals: made from products, worded, and turned into tasks."""
