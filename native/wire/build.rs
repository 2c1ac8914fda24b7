//! Generates messages and services from `proto/`, without a `protoc` on the machine.

use std::error::Error;
use std::path::Path;

use tonic_prost_build::FileDescriptorSet;

/// Envelopes whose payload messages are boxed: one payload is set at a time, and without boxes an envelope would be as large as
/// all of them together.
const ENVELOPES: [&str; 4] = [
    "OMRequest",
    "OMResponse",
    "ContainerCommandRequestProto",
    "ContainerCommandResponseProto",
];

fn main() -> Result<(), Box<dyn Error>> {
    let proto = Path::new("proto");
    println!("cargo::rerun-if-changed=proto");
    let files = ["ipc.proto", "om.proto", "datanode.proto", "peer.proto"];
    let descriptors = protox::compile(files.map(|name| proto.join(name)), [proto])?;

    let mut builder = tonic_prost_build::configure()
        .bytes(".")
        .include_file("wire.rs");
    for path in payload_paths(&descriptors) {
        builder = builder.boxed(path);
    }
    builder.compile_fds(descriptors)?;
    Ok(())
}

/// `FieldDescriptorProto.Type.TYPE_MESSAGE`.
const TYPE_MESSAGE: i32 = 11;

/// Fields of an envelope that nearly every request sets: a box would cost an allocation and save nothing.
const INLINE: [&str; 3] = ["userInfo", "layoutVersion", "readConsistencyHint"];

fn payload_paths(descriptors: &FileDescriptorSet) -> Vec<String> {
    let mut paths = Vec::new();
    for file in &descriptors.file {
        let envelopes = file
            .message_type
            .iter()
            .filter(|message| ENVELOPES.contains(&message.name()));
        for message in envelopes {
            for field in &message.field {
                if field.r#type == Some(TYPE_MESSAGE) && !INLINE.contains(&field.name()) {
                    paths.push(format!(
                        ".{}.{}.{}",
                        file.package(),
                        message.name(),
                        field.name()
                    ));
                }
            }
        }
    }
    paths
}
