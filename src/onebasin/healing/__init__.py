"""Healing: ordinary training of a merged model, and of what it is compared with."""
