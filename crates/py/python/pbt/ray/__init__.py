"""Detection in very many images with Ray, on one machine or a cluster. Needs the extra ``ray``.

>>> import pbt.ray
>>> pbt.ray.run("liver.pbt", "list.csv", "found", resume=True)

That is the command ``pbt-ray``. To make detection a step of a pipeline of your own:

>>> cases = pbt.ray.read_cases("list.csv")
>>> rows = cases.map_batches(
...     pbt.ray.Detector,
...     fn_constructor_args=["liver.pbt"],
...     compute=ray.data.ActorPoolStrategy(size=8),
...     num_cpus=2,
...     batch_size=16,
... )
"""

from ._cases import read_cases
from ._detector import Detector
from ._run import run

__all__ = ["Detector", "read_cases", "run"]
