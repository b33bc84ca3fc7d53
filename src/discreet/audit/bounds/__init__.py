"""Lower bounds on privacy loss, from guesses about canaries in one run. No torch.

| file                 | what is assumed of the run                      | source                         |
|----------------------|-------------------------------------------------|--------------------------------|
| `any_mechanism`      | nothing                                         | Mahloujifar et al. 2024 (f-DP) |
| `epsilon_delta`      | nothing                                         | Steinke, Nasr, Jagielski 2023  |
| `independent_places` | canaries are guessed from independent releases  | proved there                   |

`guessing`: the guesses, from scores. `guess_counts`: how many, fixed before a score is seen. `curve_lines`: trade-off
functions as lines. `curve_families`: from what is refuted to an epsilon. `binomial_limits`: tails and limits.

All coins are fair and independent of each other and of everything else. Every bound is directed: where the arithmetic
fails, nothing is refuted and the lower bound is 0.
"""
