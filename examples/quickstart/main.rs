//! The quick start of the README: from an engine's bytes to a decision.

use kv_events::wire::decode_batch;
use kv_events::{Predictor, Stream, StreamOptions};
use kv_index::{Index, Namespace, ReferenceIndex};
use kv_routing::{Candidate, Overlap, Request, Router};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let index = ReferenceIndex::new();
    // One stream for each data-parallel rank of each engine: it owns the writing end of one worker of the index.
    let mut engine = Stream::new(index.add_worker()?, StreamOptions::default());
    let idle = Stream::new(index.add_worker()?, StreamOptions::default());

    // What a vLLM engine published: two blocks of four tokens entered its cache. (Slots: hashes, parent, tokens, block size,
    // LoRA, medium. The current layout, a map, and those of every other release and engine are read by the same call.)
    let payload =
        b"\x93\xca\0\0\0\0\x91\x97\xabBlockStored\x92\x07\x08\xc0\x98\x01\x02\x03\x04\x05\x06\x07\x08\x04\xc0\xa3GPU\x00";
    engine.apply(&decode_batch(payload));

    // A prompt arrives. It is cut as the stream cuts its blocks, which the stream has shown by now.
    let prompt = [1, 2, 3, 4, 5, 6, 7, 8, 9];
    let mut predictor = Predictor::new();
    let mut hashes = Vec::new();
    let mut candidates = Vec::new();
    for (worker, stream) in (0..).zip([&engine, &idle]) {
        let profile = stream.profile();
        if let Some(scheme) = profile.scheme {
            scheme.hash_prompt(Namespace::default(), &prompt, &mut hashes);
        }
        let reuse = predictor.predict(&index, stream.worker(), profile, &hashes, prompt.len());
        println!("worker {worker} will reuse {} of {} tokens", reuse.tokens, prompt.len());
        candidates.push(Candidate { worker, overlap: Overlap::device(reuse.tokens as u64), ..Candidate::default() });
    }

    // Who should serve it? The seed decides ties only.
    let request = Request { prompt_tokens: 9, ..Request::default() };
    let decision = Router::default().decide(request, &candidates, 42)?;
    println!("send it to worker {}", decision.choice.worker);
    assert_eq!(decision.choice.worker, 0);
    Ok(())
}
