"""Which checkpoint is complete: layouts of training frameworks over a listing. Standard library only."""
