"""Membership attacks on a trained model, by the holder of its data: which rows were trained on?"""
