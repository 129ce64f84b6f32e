# `make run` and `make test` need Go, git, make and coreutils in PATH, but no bash, sed or awk.
SHELL := $(firstword $(wildcard /bin/bash) bash)
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The packages of every module (go.work), those of the tests (below bench are long runs alone), and
# further arguments of the command a target runs.
# What takes longest is first, and the others run beside it.
MODULES := ./e2e/... ./internal/proof/simulation ./sdk ./bench/... ./sdk/go/... ./...
PKG ?= $(MODULES:./bench/...=./bench)
ARGS ?=

# Tests are linked without what debuggers need, and `make lint` vets them.
LEAN := -vet=off '-ldflags=-s -w'

# The seeds of `make simulate`.
SEEDS ?= 20000
FROM ?= 1

# The stage of samconfig.toml that build, deploy and logs are for.
ENV ?= dev

DYNAMODB_PORT ?= 8000

export SAM_CLI_TELEMETRY := 0

# What tools/install brings of the programs that the machine lacks.
export PATH := $(CURDIR)/.cache/path:$(PATH)

# How a function is compiled for Lambda. lambda.norpc leaves out the RPC server
# of the runtime before provided.al2023. Without buildvcs, buildid and paths two
# builds of one tree are the same bytes, so a commit that changes no function
# republishes none. Tests are not built this way.
LAMBDA_TARGETS := build deploy
$(LAMBDA_TARGETS): export GOFLAGS := -tags=lambda.norpc -trimpath -buildvcs=false '-ldflags=-s -w -buildid='

# Without a C compiler a first build takes less time, and nothing here needs one
# but the race detector (tools/verdict). The targets share what they compile.
$(LAMBDA_TARGETS) run test test-all quick simulate lint vuln explore stage smoke e2e: export CGO_ENABLED := 0

# compile builds the programs $(2) in the directory .cache/$(1), and says how far it is. The number of
# packages is that of an empty build cache.
define compile
@mkdir -p .cache/$(1); [ -x .cache/$(1)/remit ] || echo "Compiling remit: one to three minutes on two cores the first time, seconds later."
@SECONDS=0; go build -v '-ldflags=-s -w' -o .cache/$(1)/ $(2) 2>&1 | \
  { n=0; all=; while IFS= read -r line; do case $$line in \
    *[:\ ]*) echo "$$line" ;; \
    */cmd/remit) echo "  linking" ;; \
    *) n=$$((n + 1)); [ $$((n % 50)) -ne 0 ] || { all=$${all:-$$(go list -deps $(2) | wc -l)}; echo "  $$n of about $$all packages compiled"; } ;; \
  esac; done; }; \
  [ $$SECONDS -lt 5 ] || echo "Compiled in $$SECONDS s."
endef

.PHONY: help
help: ## Show this list
	@while IFS= read -r line; do [[ ! $$line =~ ^([a-z0-9-]+):.*\ \#\#\ (.*) ]] || printf '  %-14s %s\n' "$${BASH_REMATCH[@]:1}"; done <Makefile

.PHONY: run
run: ## The whole stack on this machine, USDC and EURC each on its own chain (ARGS='--block-time 200ms'); needs Go alone
	@$(if $(findstring --listen,$(ARGS)),,! (: </dev/tcp/127.0.0.1/8080) 2>&- || { echo "Port 8080 is taken: see docs/payments.md#start"; exit 1; })
	$(call compile,run,-tags=sandbox ./cmd/remit)
	@exec .cache/run/remit local $(if $(filter --rpc% --rail%,$(ARGS)),,--rail usdc --rail eurc) $(ARGS)

# How both runs of the tests are made.
verdict = go run ./tools/verdict $(1) $(LEAN) -shuffle=on -timeout=25m $(ARGS) -- $(PKG)

.PHONY: test
test: ## Every test that needs Go alone, and 1,000 seeds, in five minutes (PKG=./internal/evm/token/... for some)
	@$(call verdict)

TEST_TOOLS := race dynamodb aws iam webhooks browser sdk examples generators

.PHONY: test-all
test-all: ## The tests that need tools, and packages that share memory, with the race detector (CI=true leaves none out)
	@$(if $(filter ./...,$(PKG)),$(SHELL) tools/install $(if $(filter-out false,$(CI)),,try) $(TEST_TOOLS) || { echo "With CI=$(CI) every test must run."; exit 1; })
	@no_race=$$($(SHELL) tools/install check race 2>&1) || true; export NO_RACE=$${no_race##*$$'\n  '}; \
	  $(call verdict,-all $$([ -n "$$NO_RACE" ] || echo -race))

.PHONY: lint
lint: ## gofmt, golangci-lint with go vet
	@tools/install golangci-lint
	@unformatted=$$(find . -name '*.go' -not -path './.cache/*' -not -path './.aws-sam/*' -exec gofmt -l {} +); \
	  [ -z "$$unformatted" ] || { echo "gofmt -w these:"; echo "$$unformatted"; exit 1; }
	.cache/bin/golangci-lint run --allow-parallel-runners $(MODULES)

.PHONY: quick
quick: ## The loop while you work: the tests of internal/ but the six longest (unchanged packages are remembered), 500 seeds, then lint of the packages you changed
	@failed=0; \
	go test $(LEAN) -skip '^(TestSeeds|TestExhaustive|TestGuides|TestPayBatchesAfterAFailure|TestFull)$$' ./internal/... || failed=1; \
	go test $(LEAN) ./internal/proof/simulation -run 'TestSeeds$$' -seeds=500 -from=$$RANDOM || failed=1; \
	changed=$$({ git diff --name-only --diff-filter=d HEAD; git ls-files --others --exclude-standard; } | sed -n 's,^\(.*/\)\?[^/]*\.go$$,./\1,p' | sort -u); \
	[ -z "$$changed" ] || { echo "lint of" $$changed; tools/install golangci-lint && .cache/bin/golangci-lint run --allow-parallel-runners $$changed; } || failed=1; \
	exit $$failed

.PHONY: lint-template
lint-template: ## cfn-lint with serverless rules and checkov on template.yaml, cfn-lint on what SAM makes of it
	@tools/install aws cfnlint checkov
	tools/lint-template

.PHONY: vuln
vuln: ## Known vulnerabilities in what we link; fails where the database is out of reach (GOVULNDB=URL for a mirror)
	@tools/install govulncheck
	@tools/vuln

.PHONY: ci
ci: ## What CI runs, from a clean checkout
	.ci/run

# What takes too long for a change, by its target.
NIGHTLY := sensitivity mutants alike nodes recover chaos fuzz conformance contract release upgrade torture simulate

.PHONY: nightly
nightly: export SEEDS := 100000
nightly: export FROM := $(shell echo $$((RANDOM * 100000)))
nightly: ## The longer checks one after another, also after one failed, and a table of their results (NIGHTLY='nodes chaos' for some)
	@table=; failed=0; for target in $(NIGHTLY); do SECONDS=0; result=passed; \
	  $(MAKE) --no-print-directory $$target "ARGS=$$([ $$target != upgrade ] || echo '-from HEAD^')" || { result=FAILED; failed=1; }; \
	  table+=$$(printf '%-12s %-6s %6d s' $$target $$result $$SECONDS)$$'\n'; \
	done; printf '\n%s' "$$table"; exit $$failed

.PHONY: explore
explore: ## Every operation of the API with good and bad input, by schemathesis (ARGS='--seed 7')
	@tools/install schemathesis
	tools/explore $(ARGS)

.PHONY: sdk
sdk: ## Write the generated parts of the SDKs from openapi.yaml
	@tools/install sdk
	.cache/sdk/bin/python sdk/generate

# The payments of each language that `make conformance` makes.
INTENTS ?= 2000

.PHONY: conformance
conformance: ## Pay through faults and killed processes with the SDK of every language, and count on the chain (INTENTS=2000 ARGS=-seed=7)
	@tools/install dynamodb sdk
	go test ./sdk -count=1 -v -timeout=60m -run '^TestConformance$$' -intents=$(INTENTS) $(ARGS)

.PHONY: torture
torture: ## Kill Remit and a plain service, lose and repeat their requests, restore their tables, and count on the chain (ARGS=-seed=7)
	@tools/install dynamodb torture
	go test ./bench/torture -run '^$$' -bench Torture -benchtime=1x -timeout=30m $(ARGS)

.PHONY: simulate
simulate: ## The payment engine under faults, without -race: SEEDS from FROM, and pairs of faults (SEEDS=1000000)
	go test $(LEAN) ./internal/proof/simulation -run 'TestSeeds$$|TestExhaustive' -v -timeout=24h -singles=false -seeds=$(SEEDS) -from=$(FROM) $(ARGS)

.PHONY: sensitivity
sensitivity: ## Take out every rule of tools/mutate/rules.txt in turn: its test must fail (ARGS='-only "bump is stored"')
	@tools/install dynamodb
	go run ./tools/mutate rules $(ARGS)

.PHONY: mutants
mutants: ## Every small mistake in the code that moves money or sends webhooks must fail a test, or be in tools/mutate/survivors.txt (ARGS='-only payments/wallet/pool.go')
	go run ./tools/mutate mutants $(ARGS)

.PHONY: alike
alike: ## 100,000 random operations on the store in memory and on DynamoDB Local, every answer compared (ARGS=-rapid.seed=7)
	@tools/install dynamodb
	go test ./internal/aws/dynamo -count=1 -v -timeout=24h -run '^TestAlike$$' -rapid.checks=700 -rapid.steps=25 $(ARGS)

.PHONY: fuzz
fuzz: ## Every fuzz target for FUZZTIME each (FUZZTIME=10m PKG=./internal/api/strictjson)
	tools/fuzz $(PKG)

.PHONY: bench
bench: ## Measure everything (ARGS=post for one of it), then write the targets of docs/performance.md
	@tools/install dynamodb
	go run ./bench $(ARGS)
	go test ./bench -update

# What README.md quotes.
FIGURES := post load store batches gas chaos

.PHONY: figures
figures: ## Measure what README.md quotes, 15 minutes on a quiet machine, then write docs/performance.md (FIGURES=gas for one of it)
	@tools/install dynamodb
	go run ./bench -for $(FOR) $(ARGS) $(FIGURES)
	go test ./bench -update

.PHONY: cost
cost: ## Dollars per million payments, from counted calls and list prices
	@tools/install dynamodb
	go run ./bench $(ARGS) store
	go test ./bench -update

.PHONY: profile
profile: ## Where the time and the allocations go, of paying and of settling (.cache/profiles)
	@mkdir -p .cache/profiles
	@for part in Post/store=0s/rpc=0s/clients=64/payer=4-wallets Wallets; do \
	  profile=.cache/profiles/$${part%%/*}; \
	  go test ./bench/measure -run='^$$' -bench="$$part" -benchtime=1x -o $$profile.test -cpuprofile $$profile.cpu -memprofile $$profile.mem $(ARGS); \
	  go tool pprof -top -nodecount=30 $$profile.test $$profile.cpu; \
	  go tool pprof -top -nodecount=30 -sample_index=alloc_objects $$profile.test $$profile.mem; \
	done

FOR ?= 10m

.PHONY: chaos
chaos: ## Break a running stack for FOR=10m (SIGKILL, lost answers, dead services), then audit the chain
	@tools/install dynamodb
	go run ./bench -for $(FOR) $(ARGS) chaos

NODES ?= remit,arc,anvil,hardhat

.PHONY: nodes
nodes: ## Pay through nodes of other authors with the habits of real ones (NODES=anvil ARGS='-habits=none')
	@tools/install dynamodb nodes
	go test ./bench/measure -timeout=60m -run '^$$' -bench '^Benchmark(Nodes|OneOfThree)$$' -benchtime=1x -nodes=$(NODES) $(ARGS)

.PHONY: recover
recover: ## Lose the tables under load, recover, and ask for every payment again (NODES=anvil for one node)
	@tools/install dynamodb nodes
	go test ./bench/measure -timeout=60m -run '^$$' -bench '^BenchmarkRecover$$' -benchtime=1x -nodes=$(NODES) $(ARGS)

.PHONY: contract
contract: ## Recompile the contracts and compare them with the bytecode in the repository
	tools/contract --check

.PHONY: release
release: ## Build the binaries of all platforms and the SDK packages, as for a release of HEAD (.cache/release)
	tools/release v0.0.0 && ls .cache/release/remit-v0.0.0-{linux,darwin}-{amd64,arm64}

.PHONY: tools
tools: ## Install every pinned tool under .cache/ (test-all and lint do it by themselves)
	tools/install $(TEST_TOOLS) golangci-lint govulncheck cfnlint checkov schemathesis nodes

.PHONY: dynamodb
dynamodb: ## DynamoDB Local on port 8000 (DYNAMODB_PORT) until Ctrl-C
	@tools/install dynamodb
	@exec java -Xmx256m -XX:+UseSerialGC -Djava.library.path=.cache/dynamodb -cp '.cache/dynamodb/*' \
	  com.amazonaws.services.dynamodbv2.local.main.ServerRunner -inMemory -sharedDb -disableTelemetry -port $(DYNAMODB_PORT)

.PHONY: build
build: ## Build the functions as Lambda runs them (ARGS='--parameter-overrides Architecture=x86_64')
	@tools/install aws
	parameters=$$(.cache/venv/bin/python tools/samconfig $(ENV) $(SET)) && \
	  .cache/venv/bin/sam build --config-env $(ENV) --parameter-overrides $${parameters#* * * * } $(if $(filter build,$(MAKECMDGOALS)),$(ARGS))

.PHONY: preflight
preflight: ## Find problems before a deployment to AWS, credentials first; installs nothing (ENV=dev, staging or prod)
	$(call compile,bin,./cmd/remit)
	@arguments=$$(tools/samconfig $(ENV) $(SET)) && .cache/bin/remit preflight $$arguments

.PHONY: deploy
deploy: preflight build ## Build and deploy to AWS (ENV=dev, staging or prod, from samconfig.toml; SET='LogLevel=DEBUG' for other parameters; ARGS=--no-confirm-changeset in a pipeline)
	parameters=$$(.cache/venv/bin/python tools/samconfig --release $(ENV) $(SET)) && sed -i.bak "s|^Description: Remit|& $$(git describe --always --dirty --match 'v*')|" .aws-sam/build/template.yaml && .cache/venv/bin/sam deploy --config-env $(ENV) --parameter-overrides $$parameters $(ARGS)

.PHONY: smoke
smoke: ## Key, payment and webhook against a running stack, step by step (URL=https://…, STACK=remit-dev to compare what runs with what was deployed first)
	$(call compile,bin,./cmd/remit)
	@$(if $(STACK),.cache/bin/remit doctor --stack $(STACK) --only 'live versions')
	@.cache/bin/remit smoke $(URL) $(ARGS)

.PHONY: stage
stage: ## Keep the unchanged template deployed on a local AWS until Ctrl-C, to practise docs/operate.md on
	@tools/install aws
	$(call compile,bin,./cmd/remit ./e2e/stage)
	@exec .cache/bin/stage

.PHONY: e2e
e2e: ## Deploy the unchanged template to a local AWS, then remit smoke and remit doctor against it
	@tools/install aws
	$(call compile,bin,./cmd/remit ./e2e/stage)
	go test -count=1 -v -timeout=20m -run '^TestFreshDeployment$$' ./e2e

.PHONY: upgrade
upgrade: ## Deploy the newest tag v* before this commit, or else HEAD^ (ARGS='-from REVISION'), to a local AWS, this commit over it and back, under payments; then audit
	@tools/install aws
	go test -count=1 -v -timeout=40m -tags=upgrade -run '^TestUpgrade$$' ./e2e $(ARGS)

.PHONY: verify-aws
verify-aws: ## Deploy, pay, ring, change and restore on an AWS account, with a transcript below docs/verified (tools/verify-aws says what it needs)
	@tools/install aws
	$(call compile,bin,./cmd/remit)
	@tools/verify-aws $(ARGS)

.PHONY: logs
logs: ## Follow the logs of all functions (ENV=dev)
	@tools/install aws
	.cache/venv/bin/sam logs --config-env $(ENV) --tail $(ARGS)

.PHONY: clean
clean: ## Remove everything that was built or installed here
	rm -rf .aws-sam .cache
