package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"google.golang.org/grpc/codes"

	borough "example.invalid/borough/services/client-go"
)

// expected is what a step says of its error.
type expected struct {
	Kind    *string `json:"kind"`
	Code    *string `json:"code"`
	Reason  *string `json:"reason"`
	Field   *string `json:"field"`
	Changes *bool   `json:"changes"`
	Effect  *string `json:"effect"`
	Says    *string `json:"says"`
}

func (e *expected) String() string {
	text, err := json.Marshal(e)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// compare says in what an error differs from the expected one.
func (e *expected) compare(err error) error {
	differs := func(key, want, is string) error {
		return fmt.Errorf("%s of the error is %q and not %q: %w", key, is, want, err)
	}
	if kind := kindOf(err); e.Kind != nil && kind != *e.Kind {
		return differs("kind", *e.Kind, kind)
	}
	refused := refusedOf(err)
	if e.Code != nil && (refused == nil || codeName(refused.Code) != *e.Code) {
		return differs("code", *e.Code, codeOf(refused))
	}
	if e.Reason != nil && (refused == nil || refused.Reason != *e.Reason) {
		return differs("reason", *e.Reason, fmt.Sprint(refused))
	}
	if e.Field != nil {
		fields := fieldsOf(err)
		names := func(field string) bool { return strings.Contains(field, *e.Field) }
		if !slices.ContainsFunc(fields, names) {
			return differs("field", *e.Field, strings.Join(fields, ", "))
		}
	}
	if e.Changes != nil {
		if changes := changesOf(err); changes != fmt.Sprint(*e.Changes) {
			return differs("changes", fmt.Sprint(*e.Changes), changes)
		}
	}
	if e.Effect != nil {
		effects := effectsOf(err)
		begins := func(effect string) bool { return strings.HasPrefix(effect, *e.Effect) }
		if !slices.ContainsFunc(effects, begins) {
			return differs("effect", *e.Effect, strings.Join(effects, ", "))
		}
	}
	if e.Says != nil && !strings.Contains(err.Error(), *e.Says) {
		return differs("text", *e.Says, err.Error())
	}
	return nil
}

// kindOf is the kind of an error, as the suite names it.
func kindOf(err error) string {
	var (
		invalid     *borough.InvalidError
		token       *borough.TokenError
		refused     *borough.RefusedError
		unreachable *borough.UnreachableError
		deadline    *borough.DeadlineError
		notGateway  *borough.NotGatewayError
		dry         *borough.DryRunError
		wait        *borough.WaitError
	)
	switch {
	case errors.As(err, &invalid):
		return "invalid"
	case errors.As(err, &token):
		return "token_refused"
	case errors.As(err, &refused):
		return "refused"
	case errors.As(err, &unreachable):
		return "unreachable"
	case errors.As(err, &notGateway):
		return "not_gateway"
	case errors.As(err, &deadline):
		return "deadline"
	case errors.As(err, &dry):
		return "dry_run"
	case errors.As(err, &wait):
		return string(wait.Outcome)
	case errors.Is(err, context.Canceled):
		return "cancelled"
	default:
		return "another"
	}
}

// changesOf says whether a late call may have changed something, or a dry run would.
func changesOf(err error) string {
	var (
		deadline *borough.DeadlineError
		dry      *borough.DryRunError
	)
	switch {
	case errors.As(err, &deadline):
		return fmt.Sprint(deadline.MayHaveChanged)
	case errors.As(err, &dry):
		return fmt.Sprint(dry.Changes)
	default:
		return "open"
	}
}

// effectsOf are what a dry run would do, each as SUBJECT: TEXT.
func effectsOf(err error) []string {
	var dry *borough.DryRunError
	if !errors.As(err, &dry) {
		return nil
	}
	effects := make([]string, len(dry.Effects))
	for at, effect := range dry.Effects {
		effects[at] = effect.GetSubject() + ": " + effect.GetText()
	}
	return effects
}

// refusedOf is the refusal in an error, also the last one before a client gave up; nil: none.
func refusedOf(err error) *borough.RefusedError {
	var unreachable *borough.UnreachableError
	if errors.As(err, &unreachable) && unreachable.Err != nil {
		err = unreachable.Err
	}
	var refused *borough.RefusedError
	errors.As(err, &refused)
	return refused
}

func codeOf(refused *borough.RefusedError) string {
	if refused == nil {
		return ""
	}
	return codeName(refused.Code)
}

// codeName is the name of a code in capitals, such as INVALID_ARGUMENT.
func codeName(code codes.Code) string {
	if code == codes.Canceled {
		return "CANCELLED"
	}
	var name strings.Builder
	for at, each := range code.String() {
		if at > 0 && unicode.IsUpper(each) && code != codes.OK {
			name.WriteByte('_')
		}
		name.WriteRune(unicode.ToUpper(each))
	}
	return name.String()
}

// fieldsOf are the paths of the refused fields.
func fieldsOf(err error) []string {
	var fields []string
	var invalid *borough.InvalidError
	if errors.As(err, &invalid) {
		for _, field := range invalid.Fields {
			fields = append(fields, field.Field)
		}
	}
	if refused := refusedOf(err); refused != nil {
		for _, field := range refused.Fields {
			fields = append(fields, field.Field)
		}
	}
	return fields
}
