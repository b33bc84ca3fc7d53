"""Methods for private training beside torch.optim. They see noisy means and public facts, and nothing else.

NoisySGD, NoisyAdam, NoisyAdaGrad and NoisyRMSProp of the literature are `torch.optim.SGD`, `Adam`, `Adagrad` and
`RMSprop` over releases, so they are not here.
"""

from discreet.methods.adaclip import AdaClip, adaclip
from discreet.methods.adadp import ADADP, adadp, adal, adan
from discreet.methods.adam_bc import DPAdamBC
from discreet.methods.agd import AGD
from discreet.methods.averaging import Averaging, RunningAverage
from discreet.methods.calibration import calibration_error, log_loss
from discreet.methods.dpopt import DPOPT, dpopt
from discreet.methods.dropout import DPDropout
from discreet.methods.langevin.posterior import Posterior
from discreet.methods.langevin.sgld import SGLD
from discreet.methods.langevin.step_sizes import LangevinSteps
from discreet.methods.noise_aware import NoiseAware, check_noise, tell_noise
from discreet.methods.released_scales import ReleasedScales, TrainingMethod
from discreet.methods.several import Several
from discreet.methods.weight_standardisation import standardise_weights

__all__ = [
    "ADADP",
    "AGD",
    "DPOPT",
    "SGLD",
    "AdaClip",
    "Averaging",
    "DPAdamBC",
    "DPDropout",
    "LangevinSteps",
    "NoiseAware",
    "Posterior",
    "ReleasedScales",
    "RunningAverage",
    "Several",
    "TrainingMethod",
    "adaclip",
    "adadp",
    "adal",
    "adan",
    "calibration_error",
    "check_noise",
    "dpopt",
    "log_loss",
    "standardise_weights",
    "tell_noise",
]
