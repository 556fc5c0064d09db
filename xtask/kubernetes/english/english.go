// Package english leaves kubectl's texts as they stand in its source. Otherwise every call packs
// the table of translations into an archive and unpacks it again, in English too: a third of what
// kubectl takes to start.
//
// It comes before kubectl's own packages by its import path, which is the order in which Go sets
// packages up.
package english

import "k8s.io/kubectl/pkg/util/i18n"

func init() {
	if err := i18n.SetLoadTranslationsFunc(func() error { return nil }); err != nil {
		panic(err)
	}
}
