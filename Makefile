# `make render` and `make test` are all the set-up there is: Python 3.11 to 3.13, git and make suffice.

VENV := .venv
PYTHON ?= python3
BIN := $(VENV)/bin
# What is installed, or nothing for the newest of everything that pyproject.toml allows.
CONSTRAINTS ?= constraints.txt
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check $(addprefix --constraint ,$(CONSTRAINTS))

.DEFAULT_GOAL := help

help: ## list what can be made
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(BIN)/trainwright: generator/pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable generator
	@touch $@

# Of its 2.6 GB, little is ever imported: Python compiles that then, and pip nothing.
$(VENV)/.dev: $(BIN)/trainwright requirements-dev.txt editor/pyproject.toml runtime/pyproject.toml
	$(INSTALL) --no-compile --requirement requirements-dev.txt \
		--editable "editor[mcp]" --editable "runtime[elastic,report,checkpoint,workloads]"
	@touch $@

render: $(BIN)/trainwright ## validate and render the shipped environments
	@$(BIN)/trainwright render

# Whatever the shell's variables would make of Python; tests/started_afresh.py does the rest.
PYTEST := $(BIN)/python -E -X utf8 -m pytest --dist worksteal --durations=25 $(if $(AGAIN),--last-failed --last-failed-no-failures none)

test: $(VENV)/.dev ## run the tests that a change of the generator can break, in a few minutes
	$(PYTEST) $(if $(SLOW),-n 5 -m "not nightly" --slow-part $(SLOW),-n 4 -m "not slow")

# Tests of processes wait for half of their time: six workers have two cores busy, four 78 % of them.
# `make test SLOW=1/1` runs all in one session: each worker collects once, which takes 10 to 40 s.
test-slow: $(VENV)/.dev ## run the rest: real trainings, image, packaging, fuzzing
	$(PYTEST) -n 6 -m "slow and not nightly"

test-nightly: $(VENV)/.dev ## the same with all cases, and every property with as many examples as a night holds
	$(PYTEST) -n 6 -m "slow or hypothesis" --hypothesis-profile=nightly

code-server: $(VENV)/.dev ## a Visual Studio Code in which the extension is tested
	scripts/code_server.sh

# What is not given is the kubeconfig that kubectl would use. See docs/conformance.md.
KUBECONFIG ?= $(HOME)/.kube/config
e2e: $(VENV)/.dev ## try the life of runs on a live cluster: make e2e KUBECONFIG=FILE E2E="--help"
	@PYTHONPATH=tests $(BIN)/python -X utf8 tests/e2e --kubeconfig "$(KUBECONFIG)" $(E2E)

# Each worker collects all tests. In a fresh clone each would compile all that they import.
collect: $(VENV)/.dev ## compile what the tests import, once, for the workers of `make test`
	@$(BIN)/python -E -X utf8 -m pytest --collect-only -q > $(VENV)/collected || { cat $(VENV)/collected; exit 1; }

check: $(VENV)/.dev ## lint, types, import contract, formatting, freshness of everything generated
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/chart_readme.py --check
	$(BIN)/python scripts/merge_keys.py --check
	$(BIN)/python scripts/chart_fields.py --check
	$(BIN)/python scripts/pruned_fields.py --check
	$(BIN)/python scripts/rule_pages.py --check
	$(BIN)/python scripts/target_table.py --check
	$(BIN)/python scripts/edit_table.py --check
	$(BIN)/python scripts/field_table.py --check
	$(BIN)/python scripts/fabric_page.py --check
	$(BIN)/python scripts/schema_page.py --check
	$(BIN)/python scripts/upstream_page.py --check
	$(BIN)/python scripts/kubernetes_page.py --check
	$(BIN)/python scripts/kubernetes_schemas.py --check
	$(BIN)/python scripts/verb_page.py --check
	$(BIN)/python scripts/skill_page.py --check
	$(BIN)/python scripts/workload_pages.py --check
	$(BIN)/python scripts/requirements_lock.py --check
	$(BIN)/trainwright render --check

docs: $(VENV)/.dev ## build the documentation site in docs/_build; broken links fail
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build

format: $(VENV)/.dev ## format and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Torch and what comes with it have another version for each index, and requirements-dev.txt names it.
constraints: $(VENV)/.dev ## write constraints.txt: `make clean constraints CONSTRAINTS=` raises all versions
	{ echo "# What tests and checks are run with. Written by \`make constraints\`."; \
		$(BIN)/pip freeze --exclude-editable --disable-pip-version-check \
		| grep -vE '^(torch|triton|nvidia-[a-z0-9-]+|cuda-[a-z-]+)==| @ '; } > constraints.new
	mv constraints.new constraints.txt

clean: ## remove the virtual environment
	rm -rf $(VENV)

golden: $(VENV)/.dev ## rewrite expected outputs; the review is the git diff
	$(BIN)/python -E -X utf8 -m pytest -n 2 -q tests --update-golden

bench: $(VENV)/.dev ## measure against floors and peers; prints ratios
	$(BIN)/python benchmarks/pipeline.py
	$(BIN)/python benchmarks/repository.py
	$(BIN)/python benchmarks/roles.py
	$(BIN)/python benchmarks/editor.py
	$(BIN)/python benchmarks/pages.py
	$(BIN)/python benchmarks/upgrade.py
	$(BIN)/python benchmarks/manifests.py
	$(BIN)/python benchmarks/importing.py
	$(BIN)/python benchmarks/elastic.py
	$(BIN)/python benchmarks/coordination.py
	$(BIN)/python benchmarks/schedules.py
	$(BIN)/python benchmarks/launching.py
	$(BIN)/python benchmarks/checkpoint.py
	$(BIN)/python benchmarks/makespan.py

.PHONY: help render clean constraints test test-slow test-nightly code-server e2e collect check docs format golden bench
