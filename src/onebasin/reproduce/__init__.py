"""Tables and figures of the papers, made again: train, align, measure, and put the published numbers beside ours."""
