"""The paper's equations as pure functions on tensors: the stable public mathematics.

An integer tensor `(...)` is ids and a floating tensor `(..., K)` a distribution, for `x`, `z_s` and `z_t` alike;
`x_hat` and `w_t` are distributions. `alpha_s`, `alpha_t`, `rate`, `eta_s` and `eta_t` are floats or tensors that
broadcast against the leading shape. `pi` is any strictly positive distribution, `None` the uniform one. Results have
the leading shape (times K where they are distributions) and are never averaged. `validate=True` checks values and is
off while a graph is compiled. Equation numbers are those of "Simplex Relaxation for Discrete Diffusion";
docs/equations.md lists all of them.
"""

from simplax.functional.continuous import candi_sigma as candi_sigma
from simplax.functional.continuous import flm_gamma as flm_gamma
from simplax.functional.continuous import langflow_gamma as langflow_gamma
from simplax.functional.continuous import langflow_skip as langflow_skip
from simplax.functional.continuous import refit_schedule as refit_schedule
from simplax.functional.continuous import slerp as slerp
from simplax.functional.continuous import sphere_exp as sphere_exp
from simplax.functional.continuous import sphere_velocity as sphere_velocity
from simplax.functional.continuous import truncation_alpha as truncation_alpha
from simplax.functional.distributions import DirichletMixture as DirichletMixture
from simplax.functional.distributions import simplex_bridge as simplex_bridge
from simplax.functional.distributions import simplex_conditional as simplex_conditional
from simplax.functional.distributions import simplex_marginal as simplex_marginal
from simplax.functional.duo import duo_alpha as duo_alpha
from simplax.functional.duo import duo_alpha_derivative as duo_alpha_derivative
from simplax.functional.duo import duo_gamma_range as duo_gamma_range
from simplax.functional.guidance import classifier_based as classifier_based
from simplax.functional.guidance import classifier_free as classifier_free
from simplax.functional.masked import absorbing_posterior as absorbing_posterior
from simplax.functional.masked import masked_rate as masked_rate
from simplax.functional.masked import subs_log_probs as subs_log_probs
from simplax.functional.objectives import discrete_bridge_kl as discrete_bridge_kl
from simplax.functional.objectives import relaxed_bridge as relaxed_bridge
from simplax.functional.objectives import relaxed_bridge_rate as relaxed_bridge_rate
from simplax.functional.objectives import uniform_rate as uniform_rate
from simplax.functional.process import forward_transition as forward_transition
from simplax.functional.process import lifted_posterior as lifted_posterior
from simplax.functional.process import marginal as marginal
from simplax.functional.process import reverse_posterior as reverse_posterior
from simplax.functional.sampling import nucleus as nucleus
from simplax.functional.sampling import psi_posterior as psi_posterior
from simplax.functional.sdm import ChurnStep as ChurnStep
from simplax.functional.sdm import churn_step as churn_step
from simplax.functional.sdm import simplex_posterior as simplex_posterior
from simplax.functional.surrogates import Estimate as Estimate
from simplax.functional.surrogates import dirichlet_kl as dirichlet_kl
from simplax.functional.surrogates import estimate_simplex_kl as estimate_simplex_kl
from simplax.functional.surrogates import loose_joint as loose_joint
from simplax.functional.surrogates import shifted_log_moments as shifted_log_moments
from simplax.functional.surrogates import simplex_limit as simplex_limit
from simplax.functional.surrogates import simplex_matching as simplex_matching
from simplax.functional.surrogates import tight_discrete as tight_discrete
from simplax.functional.surrogates import tight_joint as tight_joint
