//! The worlds that are checked, short for every build and long for the night.

use super::actions::{Scope, Seen};
use super::state::Budget;
use crate::command::Layout;

const NOTHING: Budget = Budget {
    appends: 0,
    opens: 0,
    units: 0,
    blocks: 1,
    renames: 0,
    deletes: 0,
    mkdirs: 0,
    strays: 0,
    switches: 0,
};

const RENAMES: &[(&str, &str)] = &[("d/f", "e/f"), ("e/f", "d/f"), ("e/g", "d/f")];
const FSO_RENAMES: &[(&str, &str)] = &[("d/f", "e/f"), ("e/f", "d/f"), ("d", "e"), ("e/d", "d")];
const DELETES: &[(&str, bool)] = &[("d/f", false), ("d", true)];

fn scope(name: &'static str, layout: Layout, budget: Budget) -> Scope {
    Scope {
        name,
        layout,
        clients: 2,
        budget,
        files: &["d/f"],
        renames: if layout == Layout::Legacy {
            RENAMES
        } else {
            FSO_RENAMES
        },
        deletes: DELETES,
        crashes: true,
        creates: false,
        depth: 64,
        states: 9_000,
        probe_one_in: 8,
    }
}

fn worlds(layout: Layout) -> Vec<Scope> {
    let legacy = layout == Layout::Legacy;
    let name = |fso, old| if legacy { old } else { fso };
    vec![
        // Takeover: two appenders, leases, recovery, late commands.
        scope(
            name("recovery/fso", "recovery/legacy"),
            layout,
            Budget {
                appends: 2,
                units: 1,
                strays: 1,
                ..NOTHING
            },
        ),
        // Suffixes of several blocks, and blocks that fail in mid-write.
        scope(
            name("suffix/fso", "suffix/legacy"),
            layout,
            Budget {
                appends: 2,
                units: 2,
                blocks: 2,
                ..NOTHING
            },
        ),
        // An ordinary writer beside an appender.
        scope(
            name("ordinary/fso", "ordinary/legacy"),
            layout,
            Budget {
                appends: 1,
                opens: 1,
                units: 1,
                strays: 1,
                ..NOTHING
            },
        ),
        // Renames, deletions and creations under an appender.
        Scope {
            creates: true,
            files: &["d/f", "e/f"],
            ..scope(
                name("names/fso", "names/legacy"),
                layout,
                Budget {
                    appends: 2,
                    units: 1,
                    renames: 1,
                    deletes: 1,
                    mkdirs: 1,
                    ..NOTHING
                },
            )
        },
        // Three clients, two files, everything, but not as long.
        Scope {
            clients: 3,
            creates: true,
            files: &["d/f", "e/g"],
            depth: 6,
            ..scope(
                name("everything/fso", "everything/legacy"),
                layout,
                Budget {
                    appends: 2,
                    opens: 1,
                    units: 2,
                    blocks: 2,
                    renames: 1,
                    deletes: 1,
                    mkdirs: 1,
                    strays: 1,
                    switches: 1,
                },
            )
        },
    ]
}

/// For every build: a minute of one core.
pub(crate) fn short() -> Vec<Scope> {
    let mut scopes = worlds(Layout::FileSystemOptimized);
    scopes.extend(worlds(Layout::Legacy));
    scopes
}

/// For the night: the same worlds with more of everything.
pub(crate) fn long() -> Vec<Scope> {
    short()
        .into_iter()
        .map(|scope| Scope {
            budget: Budget {
                appends: scope.budget.appends + 1,
                strays: scope.budget.strays.max(1),
                ..scope.budget
            },
            depth: 64,
            states: 300_000,
            probe_one_in: 4,
            ..scope
        })
        .collect()
}

/// What the table allows and a short check must have met.
const WANTED: &[(&str, &str)] = &[
    ("allocate", "Fenced"),
    ("allocate", "ok"),
    ("append", "AppendDisabled"),
    ("append", "ConflictAppend"),
    ("append", "ConflictHsync"),
    ("append", "ConflictOrdinary"),
    ("append", "FileNotFound"),
    ("append", "Recovering"),
    ("append", "ok"),
    ("cleanup", "ok"),
    ("cleanup", "ok, nothing due"),
    ("close", "Fenced"),
    ("close", "Invalidated"),
    ("close", "Unreachable"),
    ("close", "ok"),
    ("complete recovery", "ok"),
    ("create", "ConflictAppend"),
    ("create", "ok, created"),
    ("create", "ok, ordinary"),
    ("delete", "ok"),
    ("hsync", "Fenced"),
    ("hsync", "Invalidated"),
    ("hsync", "Unreachable"),
    ("hsync", "ok"),
    ("late", "AlreadyClosed"),
    ("late", "ConflictAppend"),
    ("late", "Fenced"),
    ("late", "NotEligible"),
    ("late", "SessionUnknown"),
    ("late", "Uncertain"),
    ("late", "ok"),
    ("late", "ok, joined"),
    ("open", "ConflictAppend"),
    ("open", "ok"),
    ("rename", "KeyExists"),
    ("rename", "KeyNotFound"),
    ("rename", "RenameOpenFile"),
    ("rename", "ok"),
    ("rename keys", "ok"),
    ("renew", "Fenced"),
    ("renew", "Invalidated"),
    ("renew", "ok"),
    ("start recovery", "NotEligible"),
    ("start recovery", "ok"),
    ("start recovery", "ok, joined"),
    ("sweep", "ok"),
];

/// What of it was not met.
pub(crate) fn unseen(seen: &Seen) -> Vec<&'static (&'static str, &'static str)> {
    WANTED
        .iter()
        .filter(|(op, outcome)| !seen.contains_key(&(*op, (*outcome).to_owned())))
        .collect()
}
