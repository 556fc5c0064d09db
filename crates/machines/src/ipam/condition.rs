//! The condition NetworkAllocated of a Machine. Pure.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::NETWORK_ALLOCATED;

/// What is to be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub allocated: bool,
    pub reason: &'static str,
    pub message: String,
}

/// All conditions with ours in its place, or `None` if it is written already. Others' conditions
/// stay as they are.
pub fn conditions(machine: &Value, verdict: &Verdict, now: Timestamp) -> Option<Vec<Value>> {
    let found = machine.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = found.cloned().unwrap_or_default();
    let status = if verdict.allocated { "True" } else { "False" };
    let ours = conditions
        .iter()
        .position(|condition| condition["type"] == NETWORK_ALLOCATED);
    let before = ours.and_then(|at| conditions.get(at)).cloned().unwrap_or_default();
    let same = before["status"] == status;
    if same && before["reason"] == verdict.reason && before["message"] == *verdict.message {
        return None;
    }
    let since = if same {
        before["lastTransitionTime"].clone()
    } else {
        json!(seconds(now))
    };
    let next = json!({
        "type": NETWORK_ALLOCATED,
        "status": status,
        "reason": verdict.reason,
        "message": verdict.message,
        "lastTransitionTime": since,
    });
    match ours.and_then(|at| conditions.get_mut(at)) {
        Some(place) => *place = next,
        None => conditions.push(next),
    }
    Some(conditions)
}

/// As Kubernetes writes times.
fn seconds(now: Timestamp) -> String {
    let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
    whole.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(allocated: bool) -> Verdict {
        Verdict {
            allocated,
            reason: if allocated { "Allocated" } else { "NoFreeAddress" },
            message: "m".to_owned(),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn others_conditions_stay_and_ours_is_replaced() {
        let other = json!({"type": "Ready", "status": "False"});
        let machine = json!({"status": {"conditions": [other]}});
        let first = conditions(&machine, &verdict(false), at(100)).unwrap();
        assert_eq!(first.len(), 2);
        let machine = json!({"status": {"conditions": first}});
        let second = conditions(&machine, &verdict(true), at(200)).unwrap();
        assert_eq!((second.len(), &second[0]), (2, &other));
        assert_eq!(second[1]["lastTransitionTime"], "1970-01-01T00:03:20Z");
    }

    #[test]
    fn what_is_said_already_is_not_written_again() {
        let said = conditions(&json!({}), &verdict(false), at(100)).unwrap();
        let machine = json!({"status": {"conditions": said}});
        assert_eq!(conditions(&machine, &verdict(false), at(900)), None);
        let other = Verdict {
            message: "n".to_owned(),
            ..verdict(false)
        };
        let again = conditions(&machine, &other, at(900)).unwrap();
        assert_eq!(again[0]["lastTransitionTime"], "1970-01-01T00:01:40Z");
    }
}
