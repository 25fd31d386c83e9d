"""A user's mistakes, each of which a type checker finds."""

import metis

metis.Selector(["a"], "mopps", batch="two", group=2)
metis.train(steps=2)
metis.trained(steps=2)
metis.train(out="runs/a").export(3)
