"""Components for those tasks of the ELMo paper for which spaCy has no component."""
