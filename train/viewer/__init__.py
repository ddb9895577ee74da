"""``creditflow view``: rollouts as conversations with the credit of every turn, on one offline page."""
