# Every target works in a fresh clone: the first one creates .venv and installs the pinned versions.
PY := .venv/bin/python

.PHONY: demo test test-all test-transformers4 mutants lint bench pages docs hero notebook dist clean

demo: .venv/installed  ## two small models trained here, aligned by every method; then open demo/report.html
	$(PY) -m onebasin demo

test: .venv/installed  ## two workers of one thread each
	OMP_NUM_THREADS=1 $(PY) -m pytest -n 2

test-all: .venv/docs  ## more than CI: every class with every option, ten times the examples, transformers 4, the site, a release, 20 mutants (hours)
	OMP_NUM_THREADS=1 ONEBASIN_EXAMPLES=10 $(PY) -m pytest -n 2
	$(MAKE) test-transformers4 docs dist
	$(PY) tests/mutants.py --sample 20

test-transformers4: .venv4/installed  ## the same tests on the newest transformers 4, in an environment of its own
	OMP_NUM_THREADS=1 .venv4/bin/python -m pytest -n 2

mutants: .venv/installed  ## break the code in a hundred small ways: do the tests notice? (about an hour)
	$(PY) tests/mutants.py

lint: .venv/installed  ## style, format, types
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

bench: .venv/installed  ## measure again what the documentation quotes
	$(PY) benchmarks/run.py

pages: .venv/installed  ## write anew what tests make: the reference pages of docs/, the lists of models, BibTeX
	ONEBASIN_WRITE=1 $(PY) -m pytest -q -m page tests/docs

docs: .venv/docs  ## the site, in site/: a broken link, a snippet that fails or a stale page is an error
	OMP_NUM_THREADS=1 $(PY) -m pytest -q -n 2 tests/docs
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

hero: .venv/installed  ## draw docs/hero.svg, the first picture of the README, from benchmarks/results
	$(PY) docs/hero.py

notebook: .venv/docs  ## run docs/demo.ipynb and keep what it shows
	OMP_NUM_THREADS=1 $(PY) docs/notebook.py

dist: .venv/installed  ## a release in dist/: sdist and wheel, built, looked into, the wheel installed and imported
	$(PY) scripts/release.py

clean:
	rm -rf .venv .venv4 .mutants* demo dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/installed: pyproject.toml constraints.txt
	python3 -m venv --clear .venv
	$(PY) -m pip install --quiet -c constraints.txt -e ".[dev]"
	touch $@

.venv/docs: .venv/installed
	$(PY) -m pip install --quiet -c constraints.txt -e ".[docs]"
	touch $@

.venv4/installed: pyproject.toml constraints.txt constraints-transformers4.txt
	python3 -m venv --clear .venv4
	sort -s -u -t= -k1,1 constraints-transformers4.txt constraints.txt >.venv4/constraints.txt
	.venv4/bin/python -m pip install --quiet -c .venv4/constraints.txt -e ".[dev]"
	touch $@
