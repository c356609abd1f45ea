//! Compiles the protocol files of the feature `grpc`; without it, does nothing.

#[cfg(feature = "grpc")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(["grpc_health.proto", "engine_loads.proto", "vllm.proto", "sglang.proto"], ["proto"])?;
    // The transport is the adapter's own choice.
    tonic_prost_build::configure().build_transport(false).compile_fds(files)?;
    Ok(())
}

#[cfg(not(feature = "grpc"))]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
