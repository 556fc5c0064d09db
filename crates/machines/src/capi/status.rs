//! What a claim's status says. Pure.

use jiff::Timestamp;
use serde_json::{Value, json};

/// What is to be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub ready: bool,
    pub reason: &'static str,
    pub message: String,
    /// The IPAddress, which has the claim's name.
    pub address: Option<String>,
}

/// The next status, or `None` if it is written already. Others' conditions stay as they are.
pub fn status(
    claim: &Value,
    generation: Option<i64>,
    verdict: &Verdict,
    is_v1beta2: bool,
    now: Timestamp,
) -> Option<Value> {
    let mut status = claim.get("status").cloned().unwrap_or_else(|| json!({}));
    let before = status.clone();
    if let Some(address) = &verdict.address {
        status["addressRef"] = json!({"name": address});
    }
    let found = status["conditions"].as_array().cloned();
    let mut conditions = found.unwrap_or_default();
    let ours = conditions.iter().position(|condition| condition["type"] == "Ready");
    let previous = ours.and_then(|at| conditions.get(at)).cloned().unwrap_or_default();
    let word = if verdict.ready { "True" } else { "False" };
    let same = previous["status"] == word;
    let since = if same {
        previous["lastTransitionTime"].clone()
    } else {
        json!(seconds(now))
    };
    let mut next = json!({
        "type": "Ready",
        "status": word,
        "reason": verdict.reason,
        "message": verdict.message,
        "lastTransitionTime": since,
    });
    if is_v1beta2 {
        if let Some(generation) = generation {
            next["observedGeneration"] = generation.into();
        }
    } else if !verdict.ready {
        // The older version requires it if a condition is false, and only then.
        next["severity"] = "Error".into();
    }
    match ours.and_then(|at| conditions.get_mut(at)) {
        Some(place) => *place = next,
        None => conditions.push(next),
    }
    status["conditions"] = conditions.into();
    (status != before).then_some(status)
}

fn seconds(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(ready: bool) -> Verdict {
        Verdict {
            ready,
            reason: if ready { "Allocated" } else { "PoolExhausted" },
            message: "m".to_owned(),
            address: ready.then(|| "c".to_owned()),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn success_is_ready_and_names_the_address() {
        let waiting = status(&json!({}), Some(1), &verdict(false), true, at(5)).unwrap();
        assert_eq!(waiting["conditions"][0]["reason"], "PoolExhausted");
        let claim = json!({"status": waiting});
        let done = status(&claim, Some(1), &verdict(true), true, at(9)).unwrap();
        assert_eq!(done["addressRef"]["name"], "c");
        assert_eq!(done["conditions"].as_array().unwrap().len(), 1);
        assert_eq!(done["conditions"][0]["status"], "True");
        assert_eq!(
            status(&json!({"status": done}), Some(1), &verdict(true), true, at(99)),
            None
        );
    }

    #[test]
    fn the_older_version_has_a_severity_where_something_is_wrong() {
        let waiting = status(&json!({}), Some(1), &verdict(false), false, at(5)).unwrap();
        assert_eq!(waiting["conditions"][0]["severity"], "Error");
        assert!(waiting["conditions"][0].get("observedGeneration").is_none());
        let done = status(&json!({}), Some(1), &verdict(true), false, at(5)).unwrap();
        assert!(done["conditions"][0].get("severity").is_none());
    }
}
