"""Components for the tasks of the ELMo paper that spaCy has no component for."""
