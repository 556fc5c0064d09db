// Parts of forms: a field with its label, errors, the document, the token.

import type { ComponentChildren } from "preact";

import type { FieldError, Told } from "./form";

/** Errors, where a screen reader announces them. */
export function Errors({ id, errors }: { id: string; errors: FieldError[] }) {
  return (
    <div id={id} class="errors" aria-live="polite">
      {errors.map((error) => (
        <p key={error.field + error.message} data-field={error.field}>
          <span aria-hidden="true">✕</span> {error.field && <code>{error.field}</code>}{" "}
          {error.message}
        </p>
      ))}
    </div>
  );
}

export function Field({
  id,
  label,
  value,
  hint,
  isWrong = false,
  describedBy,
  isSecret = false,
  onInput,
}: {
  id: string;
  label: string;
  value: string;
  hint?: string;
  isWrong?: boolean;
  describedBy?: string;
  isSecret?: boolean;
  onInput: (text: string) => void;
}) {
  const all = {
    id,
    value,
    placeholder: hint,
    spellcheck: false,
    autocomplete: "off",
    "aria-invalid": isWrong,
    "aria-describedby": describedBy,
    onInput: (event: { currentTarget: HTMLInputElement }) => onInput(event.currentTarget.value),
  };
  return (
    <label class="field" for={id}>
      <span>{label}</span>
      {isSecret ? <input type="password" {...all} /> : <input type="text" {...all} />}
    </label>
  );
}

/** The end of every form: what would be applied, the token, and the result. */
export function Apply({
  told: { checked, error, isCurrent },
  token,
  isBusy,
  failure,
  success,
  onToken,
  onReload,
  canPutBack,
}: {
  told: Told;
  token: string;
  isBusy: boolean;
  failure?: string;
  success?: string;
  onToken: (token: string) => void;
  onReload: () => void;
  /** Whether something was changed that can be put back; undefined: the form has no such button. */
  canPutBack?: boolean;
}) {
  const isRight = checked?.errors.length === 0 && checked.conflict === undefined;
  // Only what is shown can be applied, not what was typed since.
  const isReady = isCurrent && isRight && checked.hasChanges;
  const isWrong = checked?.token === "wrong";
  return (
    <>
      <h3>{isRight ? "What will be applied" : "What would be applied, once nothing is wrong"}</h3>
      {checked === undefined ? (
        <p class="quiet">Nothing yet.</p>
      ) : checked.hasChanges ? (
        <pre class="yaml" tabIndex={0} aria-label="The document that is applied">
          {checked.yaml}
        </pre>
      ) : (
        <p class="quiet">Nothing: the cluster has what the form says.</p>
      )}
      <div class="apply">
        <Field
          id="token"
          label="Token"
          value={token}
          isSecret
          isWrong={isWrong}
          describedBy="token-hint"
          onInput={onToken}
        />
        <button type="submit" class="main" disabled={!isReady || token === "" || isBusy}>
          Apply
        </button>
        {/* Far from the rows and always there: a late answer moves no button under the mouse. */}
        {canPutBack !== undefined && (
          <button type="button" id="back" disabled={!canPutBack} onClick={onReload}>
            Put all back as it is in the cluster
          </button>
        )}
      </div>
      <p id="token-hint" class={isWrong ? "wrong" : "quiet"}>
        {isWrong ? "This is not the token" : "Changes need the token"}
        {checked && `: ${checked.tokenHint}`}.
      </p>
      <Outcome>
        {checked?.conflict !== undefined && (
          <p class="failure">
            {checked.conflict}{" "}
            <button type="button" id="reload" onClick={onReload}>
              Load it again
            </button>
          </p>
        )}
        {[failure, error].map((text) => text && <p class="failure">{text}</p>)}
        {success !== undefined && <p class="success">✓ {success}</p>}
      </Outcome>
    </>
  );
}

function Outcome({ children }: { children: ComponentChildren }) {
  return (
    <div class="outcome" role="status">
      {children}
    </div>
  );
}
