//! The messages and services as they are generated from the files in `proto`, servers included, for mock engines.

#![allow(missing_docs, unreachable_pub, clippy::pedantic, clippy::all, rustdoc::all)]

/// `grpc_health.proto`.
pub mod health {
    tonic::include_proto!("grpc.health.v1");
}

/// `engine_loads.proto`, and who answers with its messages. The packages lie as the generated code expects.
pub mod engines {
    pub mod kv_routing {
        pub mod engine {
            pub mod v1 {
                tonic::include_proto!("kv_routing.engine.v1");
            }
        }
    }
    pub mod vllm {
        pub mod grpc {
            pub mod engine {
                tonic::include_proto!("vllm.grpc.engine");
            }
        }
    }
    pub mod sglang {
        pub mod grpc {
            pub mod scheduler {
                tonic::include_proto!("sglang.grpc.scheduler");
            }
        }
    }
}
