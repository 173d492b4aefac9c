"""Adopted shells: marks that are typed into a shell."""
