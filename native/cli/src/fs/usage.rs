//! What the shell says about itself.

/// Name, syntax and description of every command.
pub(crate) const COMMANDS: &[(&str, &str, &str)] = &[
    (
        "appendToFile",
        "[-n] <localsrc> ... <dst>",
        "Appends local files, in order, to a file; creates it, parents too, if it does not exist. `-' alone reads standard \
         input. -n asks for a new block, which every append starts anyway.",
    ),
    (
        "cat",
        "[-ignoreCrc] <src> ...",
        "Shows what is in files. -ignoreCrc is taken for Hadoop's sake: checksums are verified all the same.",
    ),
    (
        "get",
        "[-f] [-p] [-ignoreCrc] [-t <thread count>] [-q <queue size>] <src> ... <localdst>",
        "Copies files and directories to this machine. -f replaces local files, -p keeps times. -ignoreCrc, -t and -q are taken \
         for Hadoop's sake: checksums are verified all the same, and one file follows the other.",
    ),
    ("help", "[cmd ...]", "Describes commands."),
    (
        "ls",
        "[-C] [-d] [-h] [-q] [-R] [-t] [-S] [-r] [-u] [<path> ...]",
        "Lists directories. -C paths only, -d the directory itself, -h sizes for people, -q no control characters, -R all \
         levels, -t newest first, -S largest first, -r the other way round, -u access times.",
    ),
    (
        "mkdir",
        "[-p] <path> ...",
        "Makes directories. -p with missing parents, and none of them need be missing.",
    ),
    (
        "mv",
        "<src> ... <dst>",
        "Renames files and directories, or moves them into a directory.",
    ),
    (
        "put",
        "[-f] [-p] [-d] [-t <thread count>] [-q <queue size>] <localsrc> ... <dst>",
        "Copies local files and directories to the server; `-' alone reads standard input. -f replaces files, -p keeps times, \
         -d writes under the final name at once instead of <dst>._COPYING_. -t and -q are taken for Hadoop's sake: one file \
         follows the other.",
    ),
    (
        "rm",
        "[-f] [-r|-R] [-skipTrash] <src> ...",
        "Deletes files, and directories with -r. -f does not mind missing ones, -skipTrash is needed where fs.trash.interval \
         promises a trash.",
    ),
    (
        "stat",
        "[-R] [format] <path> ...",
        "Shows statuses: %a %A mode, %b bytes, %F kind, %g group, %n name, %o block size, %r copies, %u owner, %x %X access \
         time, %y %Y modification time (UTC, or milliseconds since 1970).",
    ),
    (
        "tail",
        "[-f] [-s <sleep interval>] <file>",
        "Shows the last kilobyte of a file. -f goes on as it grows, looking every <sleep interval> milliseconds (5000).",
    ),
    ("usage", "[cmd ...]", "Shows the syntax of commands."),
];

/// Syntax of one command.
pub(crate) fn line(name: &str, syntax: &str) -> String {
    format!("Usage: append fs [generic options] -{name} {syntax}")
}

/// The list of all commands and of the options in front of them.
pub(crate) fn overview() -> String {
    let mut text = "Usage: append fs [generic options]\n".to_owned();
    for (name, syntax, _) in COMMANDS {
        text.push_str(&format!("\t[-{name} {syntax}]\n"));
    }
    text.push_str(
        "\nGeneric options:\n  \
         -fs <ofs://HOST:PORT>    server of paths without a scheme, instead of fs.defaultFS in core-site.xml\n  \
         -D <key=value>           a setting\n",
    );
    text
}

/// A command by its name without the dash.
pub(crate) fn find(name: &str) -> Option<&'static (&'static str, &'static str, &'static str)> {
    COMMANDS.iter().find(|command| command.0 == name)
}

/// A description, indented and in lines that fit a terminal.
pub(crate) fn wrapped(text: &str) -> String {
    const WIDTH: usize = 80;
    let mut lines = vec![" ".to_owned()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("  {word}")),
        }
    }
    lines.join("\n")
}
