//! Any bytes as a conf: both plugins read it, or refuse it with a code of the CNI specification and
//! a text.

use berth_api::cni::{CniError, Conf, Document, Need, Outcome, Place, Version};

pub fn run(data: &[u8]) {
    let document = match Document::read(data) {
        Ok(document) => document,
        Err(failure) => {
            assert_eq!(failure.code.number(), 6);
            return;
        }
    };
    for place in [Place::Ipam, Place::Top] {
        let all = Conf::read(&document, place, Need::All);
        for need in [Need::Release, Need::Collect] {
            let some = Conf::read(&document, place, need);
            // A conf that is valid as a whole is valid in part.
            assert!(some.is_ok() || all.is_err(), "{need:?}: {some:?}");
            match some {
                Ok(conf) => accept(&conf, need),
                Err(failure) => understand(&failure),
            }
        }
        match all {
            Ok(conf) => accept(&conf, Need::All),
            Err(failure) => understand(&failure),
        }
    }
}

fn understand(failure: &CniError) {
    assert!(matches!(failure.code.number(), 1 | 2 | 7), "{failure:?}");
    assert!(!failure.msg.is_empty());
}

/// What is read has been checked: a plugin uses it as it is.
fn accept(conf: &Conf, need: Need) {
    let settings = &conf.settings;
    for path in [&settings.socket, &settings.queue_dir] {
        assert!(path.starts_with('/') && !path.contains('\0'), "{path:?}");
    }
    assert!(settings.socket.len() < 108 && !settings.timeout.is_zero());
    let is_named = !conf.name.is_empty() && !conf.name.contains('/') && !conf.name.starts_with('.');
    assert!(is_named || need == Need::Release, "{:?}", conf.name);
    for attachment in conf.valid.iter().flatten() {
        attachment.validate().unwrap();
    }
    // The result of another plugin can be written in every version. Once written and read, it stays
    // the same.
    if let Some(previous) = &conf.previous {
        let outcome = Outcome::read(previous);
        let written = outcome.document(Version::LATEST);
        assert_eq!(Outcome::read(&written).document(Version::LATEST), written);
        for version in Version::ALL {
            outcome.document(version);
        }
    }
}
