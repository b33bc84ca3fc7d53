"""The record of what a model runs on a batch, and the program that it is.

recorder    records the operators of a model while it runs (`passes`, `interception`, `constants`, `scripted`)
program     the record as a program, for batches of every size
spans       modules that run again, and the operators inside
checkpoints the operators under `torch.utils.checkpoint`
"""
