"""Pages of the shop as HTML, in the formats of published work, with advertisements, and as a local web page."""
