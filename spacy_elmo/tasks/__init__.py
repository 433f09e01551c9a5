"""Components for the tasks that the paper measured ELMo on and spaCy has no component for."""
