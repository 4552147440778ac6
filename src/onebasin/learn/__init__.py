"""Learned matching: the task loss along the path refines the maps that matching found."""

from onebasin.learn.analysis import analyse
from onebasin.learn.learned import Learned, aligned, aligned_pairs, aligned_together
from onebasin.learn.options import LearnedMatching
from onebasin.learn.together import learn, learn_together
from onebasin.learn.training import Point, Progress

__all__ = [
    "Learned", "LearnedMatching", "Point", "Progress", "aligned", "aligned_pairs", "aligned_together", "analyse",
    "learn", "learn_together",
]  # fmt: skip
