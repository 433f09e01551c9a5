"""Components for the paper's tasks that spaCy has no component for."""
