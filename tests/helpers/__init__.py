"""What several tests share: random models, tiny pairs, folders, pages of the documentation."""
