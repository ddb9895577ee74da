"""Goals: made from products, worded, stored, and turned into tasks."""
