package borough

import (
	"os"
	"strings"
)

// ConfigFromEnvironment reads the variables that the program borough reads too: BOROUGH_GATEWAY (addresses with commas
// between), BOROUGH_TOKEN_FILE, BOROUGH_CELL, BOROUGH_USER (else USER), BOROUGH_TLS_CA, BOROUGH_TLS_CERT and
// BOROUGH_TLS_KEY.
func ConfigFromEnvironment() Config {
	config := Config{
		User: os.Getenv("BOROUGH_USER"), Cell: os.Getenv("BOROUGH_CELL"), TokenFile: os.Getenv("BOROUGH_TOKEN_FILE"),
	}
	if config.User == "" {
		config.User = os.Getenv("USER")
	}
	for _, address := range strings.Split(os.Getenv("BOROUGH_GATEWAY"), ",") {
		if address = strings.TrimSpace(address); address != "" {
			config.Gateways = append(config.Gateways, address)
		}
	}
	if authority := os.Getenv("BOROUGH_TLS_CA"); authority != "" {
		config.TLS = &TLS{CA: authority, Certificate: os.Getenv("BOROUGH_TLS_CERT"), Key: os.Getenv("BOROUGH_TLS_KEY")}
	}
	return config
}
