"""The pipe `elmo`."""
