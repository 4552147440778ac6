"""Labelled axes: what tokens and classes are called, and models that name the same things brought to one order.

Free of torch.
"""
