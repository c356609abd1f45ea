//! Compiles the protocol files of the feature `grpc`; without it, does nothing.

#[cfg(feature = "grpc")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files =
        ["kv_events.proto", "smg_common.proto", "smg_vllm.proto", "smg_sglang.proto", "smg_trtllm.proto", "smg_tokenspeed.proto"];
    let files = protox::compile(files, ["proto"])?;
    // The transport is the adapter's own choice.
    tonic_prost_build::configure().build_transport(false).bytes(".kv_events.v1.Batch").compile_fds(files)?;
    Ok(())
}

#[cfg(not(feature = "grpc"))]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
