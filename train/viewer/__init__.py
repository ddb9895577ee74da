"""``creditflow view``: trajectories beside their state graph, on one offline page."""
