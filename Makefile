# The project's verbs. Everything is done by scripts/, so that a person and CI run the same.
#
# PROFILE is the cargo profile of all that is built (tests, binary, the library that Java loads): one profile, one build.
# CARGO_TARGET_DIR is honoured.

PROFILE ?= ci
export PROFILE

.DEFAULT_GOAL := help
.PHONY: help setup build demo test nightly model random mutants chaos check contract contract-only matrix bench

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what this machine lacks
	scripts/setup

build: ## build the binary `append`, the native library and the jar
	scripts/build
	scripts/build-java

demo: ## install what is missing, build, start a server, append to a text file, show it
	scripts/setup
	scripts/demo

check: ## format, lints, docs, licences
	scripts/check

test: ## everything that CI runs
	scripts/test

nightly: ## every long form: hours; STEPS='power crash' for some of them
	scripts/nightly $(STEPS)

model: ## every history of small worlds against the rules; MINUTES=30
	MINUTES=$(MINUTES) scripts/model model

random: ## random histories from a seed; SEED=… STEPS=…
	SEED=$(SEED) STEPS=$(STEPS) scripts/model random

mutants: ## leave out every guard of the rules in turn; each must be missed
	scripts/model mutants

chaos: build ## servers, datanodes and clients killed, stopped and cut off under a recorded history; SEED=… FAULTS=…
	SEED=$(SEED) FAULTS=$(FAULTS) scripts/chaos

contract: build contract-only ## Hadoop's own contract suites against our server, one table

# What `make test` calls once everything is built.
contract-only:
	scripts/with-server -D ozone.om.lease.soft.limit=8s -- scripts/contract-table

matrix: build ## all of Hadoop's suites that we pass: Hadoop 3.4.2 and 3.5.0, ofs and o3fs, FSO and LEGACY buckets
	scripts/with-server -D ozone.om.lease.soft.limit=8s -- scripts/contract-table --matrix

bench: ## libappend beside HDFS and beside what this machine allows; BENCH=--quick for a short look
	bench/run $(or $(BENCH),--full)
