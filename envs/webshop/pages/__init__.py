"""Pages of the shop as HTML, in the forms of published work, and as a web page for one person."""
