//! The messages and services as they are generated from the files in `proto`, for whoever speaks to a relay by other means than
//! ours.

#![allow(missing_docs, unreachable_pub, clippy::pedantic, clippy::all, rustdoc::all)]

/// Our service: `kv_events.proto`.
pub mod kv_events {
    tonic::include_proto!("kv_events.v1");
}

/// Messages and services of the SMG family: `smg_*.proto`. The packages lie as the generated code expects.
pub mod smg_family {
    pub mod smg {
        pub mod grpc {
            pub mod common {
                tonic::include_proto!("smg.grpc.common");
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
    pub mod trtllm {
        tonic::include_proto!("trtllm");
    }
    pub mod tokenspeed {
        pub mod grpc {
            pub mod scheduler {
                tonic::include_proto!("tokenspeed.grpc.scheduler");
            }
        }
    }
}
