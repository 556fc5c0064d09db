//! 5,000 routes of the kernel.

use std::time::Instant;

use berth_routes::backend::Backend;
use berth_routes::backend::linux::Linux;
use berth_routes::core::{Change, Creation, Hop};
use berth_testbed::Figures;

use crate::namespace::Namespace;

const ROUTES: u32 = 5000;

pub fn measure(figures: &mut Figures) {
    let namespace = Namespace::with_pair();
    let backend = Linux::with(namespace.socket());
    let changes: Vec<Change> = (0..ROUTES)
        .map(|number| Change {
            destination: format!("10.{}.{}.0/24", number / 256, number % 256)
                .parse()
                .unwrap(),
            delete: Vec::new(),
            create: Some(Creation {
                node: "n".to_owned(),
                uid: "u".to_owned(),
                hop: Hop::Address("192.0.2.7".parse().unwrap()),
            }),
        })
        .collect();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let start = Instant::now();
        for batch in changes.chunks(backend.limits().batch) {
            assert!(backend.apply(batch).await.iter().all(Result::is_ok));
        }
        figures.millis(
            "berth: 5,000 Linux routes made",
            start.elapsed().as_secs_f64() * 1e3,
        );
        let start = Instant::now();
        assert_eq!(backend.list().await.unwrap().len(), 5000);
        figures.millis(
            "berth: 5,000 Linux routes listed",
            start.elapsed().as_secs_f64() * 1e3,
        );
    });
}
