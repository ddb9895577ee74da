"""The plots of a document as plain data, which the page draws in its own colours and matplotlib as pictures."""
