"""Plans to start from: of any model, and of a language model with the settings of papers."""

from discreet.plan.suggest.suggest_language import LanguageSuggestion, suggest_language
from discreet.plan.suggest.suggest_plan import Suggestion, suggest

__all__ = ["LanguageSuggestion", "Suggestion", "suggest", "suggest_language"]
