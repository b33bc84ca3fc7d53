"""The pages of a published folder: report and model card."""
